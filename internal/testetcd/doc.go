// Package testetcd gives tests a real etcd: one in the test's own process, started
// when a test first asks for it, shared by all tests of the binary, each of which
// takes a namespace of its own. Its data is not synced to the disk.
//
//	func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }
//
//	func TestClaim(t *testing.T) {
//		store, space := testetcd.Start(t), testetcd.Space(t)
//		…
//	}
//
// [Recorder] counts a store's requests; [Hook] lets a test refuse a request, drop
// its answer, or run other code between a read and a write. Only tests import it.
package testetcd
