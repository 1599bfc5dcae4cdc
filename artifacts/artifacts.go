package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// ErrNotFound is the one answer for an id that was never given out, is
// misspelt, belongs to somebody else, ran out, or whose file is gone: a caller
// that may not have it learns nothing by asking.
var ErrNotFound = errors.New("no such artifact")

// ErrWithheld says that an artifact may not be read in slices or searched:
// only what [Artifact.Tables] says of it may leave.
var ErrWithheld = errors.New("withheld: of this artifact only its aggregates may be read")

// A QuotaError says that an artifact does not fit. Nothing of it was kept.
type QuotaError struct {
	Need, Used, Quota int64 // bytes; Need is what was known when it was refused
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("keep %s: %s of %s are in use; remove artifacts that are no longer needed (mcp-gate artifacts rm ID) or raise artifacts.quota",
		sizeWords(e.Need), sizeWords(e.Used), sizeWords(e.Quota))
}

// sizeWords writes a number of bytes for people.
func sizeWords(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// Origin is the tool that a content came from.
type Origin struct {
	Server string `json:"server"` // alias
	Tool   string `json:"tool"`
}

// An Artifact is the row of one kept content. Rows are immutable but for
// Expires.
type Artifact struct {
	ID        string // "a_" and 26 base32 characters
	Digest    string // SHA-256 of the content, 64 hex digits
	Size      int64  // bytes
	Media     string // media type, "application/octet-stream" where unknown
	URI       string // of the resource it was, "" without; not shown of withheld ones
	Classes   engagement.EgressSet
	Withheld  bool // it was kept because it may not leave
	Principal string
	Session   string
	Origin    Origin
	Created   time.Time
	Expires   time.Time
	Width     int     // of a picture, in pixels, else 0
	Height    int     // as Width
	Tables    []Table // with aggregates, computed once, when it was kept
}

// row is the shape of an artifact in a row file, and for other stores.
type row struct {
	ID        string              `json:"id"`
	Digest    string              `json:"digest"`
	Size      int64               `json:"size"`
	Media     string              `json:"media"`
	URI       string              `json:"uri,omitempty"`
	Classes   []engagement.Egress `json:"classes"`
	Withheld  bool                `json:"withheld,omitempty"`
	Principal string              `json:"principal"`
	Session   string              `json:"session"`
	Origin    Origin              `json:"origin"`
	Created   time.Time           `json:"created"`
	Expires   time.Time           `json:"expires"`
	Width     int                 `json:"width,omitempty"`
	Height    int                 `json:"height,omitempty"`
	Tables    []Table             `json:"tables,omitempty"`
}

// MarshalJSON writes an artifact as its row: classes as words, times in UTC.
func (a Artifact) MarshalJSON() ([]byte, error) {
	return json.Marshal(row{a.ID, a.Digest, a.Size, a.Media, a.URI, a.Classes.List(), a.Withheld, a.Principal, a.Session, a.Origin,
		a.Created.UTC(), a.Expires.UTC(), a.Width, a.Height, a.Tables})
}

// UnmarshalJSON reads what [Artifact.MarshalJSON] writes. An unknown class is an
// error: it may be one that is more restricted than those known here.
func (a *Artifact) UnmarshalJSON(b []byte) error {
	var r row
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("read artifact row: %w", err)
	}
	*a = Artifact{r.ID, r.Digest, r.Size, r.Media, r.URI, engagement.EgressOf(r.Classes...), r.Withheld, r.Principal, r.Session, r.Origin,
		r.Created, r.Expires, r.Width, r.Height, r.Tables}
	return nil
}

// Usage is how much is kept.
type Usage struct {
	Artifacts int   // rows
	Bytes     int64 // of their contents, each content counted once
}

// Rows keeps the rows of artifacts. Implementations are safe for concurrent use
// by several processes. A row that Put returned nil for outlives a crash.
type Rows interface {
	// Put adds a row; an id that is there already is an error.
	Put(ctx context.Context, a Artifact) error
	// Get returns the row of an id, or an error wrapping [ErrNotFound].
	Get(ctx context.Context, id string) (Artifact, error)
	// List returns the rows of a principal, of all where it is "", newest first.
	List(ctx context.Context, principal string) ([]Artifact, error)
	// Touch sets when a row runs out.
	Touch(ctx context.Context, id string, expires time.Time) error
	// Delete removes a row. One that is not there is no error.
	Delete(ctx context.Context, id string) error
	// Usage sums up all rows, those that ran out included.
	Usage(ctx context.Context) (Usage, error)
}

// validID reports whether id has the form of one that [Store] gives out.
func validID(id string) bool {
	if len(id) != 28 || id[:2] != "a_" {
		return false
	}
	for _, c := range []byte(id[2:]) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
