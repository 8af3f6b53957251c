// Package record encodes what keys hold. A record is one line of JSON, its
// header, optionally followed by a line feed and a body: the payload, byte for
// byte as the user gave it. So a record is readable with etcdctl, and payloads
// are neither parsed nor escaped on their way.
//
// The header has a version "v". Fields that this release does not know are kept
// when a record is rewritten, those of a history's deliveries too, so that an
// older release beside a newer one drops nothing silently. The format is frozen:
// see the goldens in testdata.
package record
