// Package boundaries holds no code. Its tests keep the shape of the module: which
// package may import which, that keys are built in one place, how long files and
// functions may be, which words the tree may not hold, and that the links of the
// documents lead somewhere.
package boundaries
