// Package clients knows the configuration files of other programs that start
// MCP servers: where each keeps its file, in which of a dozen shapes, and what
// it makes of variables in it. It reads the servers out of such a file, proposes
// what of them goes into this product's own file, and edits that one in place.
//
// It reads leniently, since a file that its own client takes must not be lost to
// a comment or a byte order mark, and it never writes to another program's file.
// A fault inside one entry costs that entry alone and names its line and column;
// a file that cannot be read as a whole costs only itself. It starts nothing,
// asks nobody and stores no secret: references to a client's own inputs become
// references to secrets, which the caller keeps.
//
// To start:
//
//	file, err := clients.Read(path, data, clients.Options{Env: os.LookupEnv, GOOS: runtime.GOOS})
//	target, err := clients.OpenTarget(name, text)
//	plan := target.Plan(file.Servers, clients.PlanOptions{})
//	text, err = target.Apply(plan)
package clients
