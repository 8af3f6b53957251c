// Package embedded runs an etcd of one member inside this process, for local
// development and for tests. It is no substitute for a cluster: it lives and dies
// with its process, and nothing but its own data directory survives.
//
// It brings all of etcd's server into the program, whose packages register their
// metrics with the default Prometheus registry; so nothing else in the library
// imports it, and who uses it says so by importing it.
//
// Its limits are those of an etcd with default flags (128 operations in a
// transaction, 1.5 MiB in a request), so that what runs here runs there.
package embedded
