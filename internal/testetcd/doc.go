// Package testetcd gives tests a real etcd: one in the test's own process, started
// when a test first asks for it, shared by all tests of the binary, each of which
// takes a namespace of its own. Its data is not synced to the disk.
//
// A package that uses it calls [Main] in its TestMain, which stops the etcd and
// then looks for goroutines that the tests left behind; its tests take what they
// need from [Start] or [Dial] and [Space].
//
// [Recorder] counts a store's requests; [Hook] lets a test refuse a request, drop
// its answer, or run other code between a read and a write. Only tests import it.
package testetcd
