package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// The layout of a database file of etcd, as go.etcd.io/bbolt writes it. Frozen there.
const (
	databaseMagic   = 0xED0CDAED
	databaseVersion = 2
	pageHeaderBytes = 16
	metaBytes       = 56 // magic, version, page size, flags, root, free list, pages, transaction
	checksumBytes   = 8

	smallestPage, largestPage = 1 << 10, 1 << 24
)

// checkDatabase looks whether etcd's database, if there is one, is one at all. Etcd
// opens it in a goroutine of its own and panics where it can't, which would end this
// process without a word about the file. Damage further inside stays undetected.
func checkDatabase(data string) error {
	path := filepath.Join(data, "member", "snap", "db")
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 || hasMeta(f, 0) { // etcd makes an empty one anew
		return nil
	}
	for page := int64(smallestPage); page <= largestPage; page *= 2 {
		if hasMeta(f, page) { // the second one; the first may be torn
			return nil
		}
	}
	return fmt.Errorf("%s is no database of etcd; restore the directory from a copy, or move it away to begin anew", path)
}

// hasMeta says whether the page at the offset is a valid meta page.
func hasMeta(f *os.File, offset int64) bool {
	var page [pageHeaderBytes + metaBytes + checksumBytes]byte
	if _, err := f.ReadAt(page[:], offset); err != nil {
		return false
	}
	meta, sum := page[pageHeaderBytes:pageHeaderBytes+metaBytes], page[pageHeaderBytes+metaBytes:]
	h := fnv.New64a()
	_, _ = h.Write(meta)
	return binary.NativeEndian.Uint32(meta) == databaseMagic &&
		binary.NativeEndian.Uint32(meta[4:]) == databaseVersion &&
		binary.NativeEndian.Uint64(sum) == h.Sum64()
}
