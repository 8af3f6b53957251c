package embedded

import (
	"errors"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

const (
	dataName  = "etcd"
	birthName = "holdfast.birth"
)

// begin prepares etcd's part of the locked directory. A first start that is cut
// off at the wrong moment leaves data with which etcd never elects a leader, and
// the next start would hang. So a file is there from before the first start until
// that one has succeeded; where it is found, what is beside it has served nobody,
// and is removed.
func begin(dir string) error {
	data, birth := filepath.Join(dir, dataName), filepath.Join(dir, birthName)
	switch {
	case fileutil.Exist(birth):
		return os.RemoveAll(data)
	case fileutil.Exist(data):
		return nil
	}
	if err := os.WriteFile(birth, nil, fileutil.PrivateFileMode); err != nil {
		return err
	}
	return syncDir(dir)
}

// settle says that the start has succeeded. From its return on, the data stays,
// also where the machine crashes.
func settle(dir string) error {
	err := os.Remove(filepath.Join(dir, birthName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := fileutil.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(fileutil.Fsync(d), d.Close())
}
