package inbox

import "io/fs"

// ownedByUs leaves ownership to the access list of the directory.
func ownedByUs(fs.FileInfo) error { return nil }
