package config

import "github.com/mcp-gate/mcp-gate/internal/enum"

// Section is the part of a file that named a server.
type Section uint8

const (
	SectionServers    Section = iota + 1 // "servers", written for this product
	SectionMCPServers                    // "mcpServers", as a client's own file has it
)

var sections = enum.Of[Section]("section", "servers", "mcpServers")

func (s Section) String() string                { return sections.Word(s) }
func (s Section) MarshalText() ([]byte, error)  { return sections.Marshal(s) }
func (s *Section) UnmarshalText(b []byte) error { return sections.Unmarshal(b, s) }

// Transport is how a server is reached.
type Transport uint8

const (
	TransportStdio Transport = iota + 1 // a child process, over its pipes
	TransportHTTP                       // streamable HTTP
	TransportSSE                        // what entries call the older HTTP+SSE; most such servers speak streamable HTTP, too, which is what is tried
)

var transports = enum.Of[Transport]("transport", "stdio", "http", "sse")

func (t Transport) String() string                { return transports.Word(t) }
func (t Transport) MarshalText() ([]byte, error)  { return transports.Marshal(t) }
func (t *Transport) UnmarshalText(b []byte) error { return transports.Unmarshal(b, t) }

// Exposure is the form in which tools are shown to a client.
type Exposure uint8

const (
	ExposureMeta        Exposure = iota + 1 // a constant handful of tools that find and call the rest
	ExposureDirect                          // the real tools and the handful
	ExposureTransparent                     // one server's tools under their own names, and nothing else
)

var exposures = enum.Of[Exposure]("exposure", "meta", "direct", "transparent")

// Exposures returns every Exposure.
func Exposures() []Exposure { return exposures.All() }

func (e Exposure) String() string                { return exposures.Word(e) }
func (e Exposure) MarshalText() ([]byte, error)  { return exposures.Marshal(e) }
func (e *Exposure) UnmarshalText(b []byte) error { return exposures.Unmarshal(b, e) }

// Slice is what a tool outside a session's domains is: further away, or out of reach.
type Slice uint8

const (
	SliceAdvise  Slice = iota + 1 // it can still be found and called
	SliceEnforce                  // it does not run
)

var sliceWords = enum.Of[Slice]("slice", "advise", "enforce")

// Slices returns every Slice.
func Slices() []Slice { return sliceWords.All() }

func (s Slice) String() string                { return sliceWords.Word(s) }
func (s Slice) MarshalText() ([]byte, error)  { return sliceWords.Marshal(s) }
func (s *Slice) UnmarshalText(b []byte) error { return sliceWords.Unmarshal(b, s) }

// Accept is how a definition that was never seen is taken.
type Accept uint8

const (
	AcceptFirstSight Accept = iota + 1 // accepted and recorded
	AcceptManual                       // held until a person accepts it
)

var accepts = enum.Of[Accept]("accept", "first-sight", "manual")

// Accepts returns every Accept.
func Accepts() []Accept { return accepts.All() }

func (a Accept) String() string                { return accepts.Word(a) }
func (a Accept) MarshalText() ([]byte, error)  { return accepts.Marshal(a) }
func (a *Accept) UnmarshalText(b []byte) error { return accepts.Unmarshal(b, a) }

// Start is when a server is started.
type Start uint8

const (
	StartEager Start = iota + 1 // with the gate
	StartLazy                   // at the first call
)

var starts = enum.Of[Start]("start", "eager", "lazy")

// Starts returns every Start.
func Starts() []Start { return starts.All() }

func (s Start) String() string                { return starts.Word(s) }
func (s Start) MarshalText() ([]byte, error)  { return starts.Marshal(s) }
func (s *Start) UnmarshalText(b []byte) error { return starts.Unmarshal(b, s) }

// Connection is who shares a connection to a server.
type Connection uint8

const (
	ConnectionShared  Connection = iota + 1 // all sessions of the process
	ConnectionSession                       // each session has its own
)

var connections = enum.Of[Connection]("connection", "shared", "session")

// Connections returns every Connection.
func Connections() []Connection { return connections.All() }

func (c Connection) String() string                { return connections.Word(c) }
func (c Connection) MarshalText() ([]byte, error)  { return connections.Marshal(c) }
func (c *Connection) UnmarshalText(b []byte) error { return connections.Unmarshal(b, c) }

// Secrets is what becomes of secrets found in results.
type Secrets uint8

const (
	SecretsOff    Secrets = iota + 1 // they are not looked for
	SecretsRedact                    // they are blacked out
)

var secretWords = enum.Of[Secrets]("secrets", "off", "redact")

// SecretsModes returns every Secrets.
func SecretsModes() []Secrets { return secretWords.All() }

func (s Secrets) String() string                { return secretWords.Word(s) }
func (s Secrets) MarshalText() ([]byte, error)  { return secretWords.Marshal(s) }
func (s *Secrets) UnmarshalText(b []byte) error { return secretWords.Unmarshal(b, s) }

// Schemas is how tool schemas are given to a client.
type Schemas uint8

const (
	SchemasAsIs   Schemas = iota + 1 // the bytes of the server
	SchemasStrict                    // cut to what strict providers take
)

var schemaWords = enum.Of[Schemas]("schemas", "as-is", "strict")

// SchemasModes returns every Schemas.
func SchemasModes() []Schemas { return schemaWords.All() }

func (s Schemas) String() string                { return schemaWords.Word(s) }
func (s Schemas) MarshalText() ([]byte, error)  { return schemaWords.Marshal(s) }
func (s *Schemas) UnmarshalText(b []byte) error { return schemaWords.Unmarshal(b, s) }

// LogLevel is the least grave message that is logged.
type LogLevel uint8

const (
	LogDebug LogLevel = iota + 1
	LogInfo
	LogWarn
	LogError
)

var logLevels = enum.Of[LogLevel]("log level", "debug", "info", "warn", "error")

// LogLevels returns every LogLevel, least grave first.
func LogLevels() []LogLevel { return logLevels.All() }

func (l LogLevel) String() string                { return logLevels.Word(l) }
func (l LogLevel) MarshalText() ([]byte, error)  { return logLevels.Marshal(l) }
func (l *LogLevel) UnmarshalText(b []byte) error { return logLevels.Unmarshal(b, l) }

// LogFormat is the form of the log on standard error.
type LogFormat uint8

const (
	LogAuto LogFormat = iota + 1 // text on a terminal, JSON elsewhere
	LogText
	LogJSON
)

var logFormats = enum.Of[LogFormat]("log format", "auto", "text", "json")

// LogFormats returns every LogFormat.
func LogFormats() []LogFormat { return logFormats.All() }

func (f LogFormat) String() string                { return logFormats.Word(f) }
func (f LogFormat) MarshalText() ([]byte, error)  { return logFormats.Marshal(f) }
func (f *LogFormat) UnmarshalText(b []byte) error { return logFormats.Unmarshal(b, f) }
