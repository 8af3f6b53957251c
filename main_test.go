package holdfast_test

import (
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/internal/testetcd"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }
