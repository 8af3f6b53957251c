// Package etcd is the small interface through which the engine uses etcd, with
// operation types of its own, so that the engine runs on the real client
// (internal/etcdv3) and on an etcd in memory as it is. It holds no policy: what
// is compared and written is decided in the packages fencing, leasing and heap.
package etcd
