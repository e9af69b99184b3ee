//go:build !cgo

package namespace

// storeOutsideGo says whether the store's cache and tables of new entries are memory of C's.
const storeOutsideGo = false
