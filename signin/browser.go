package signin

import (
	"errors"
	"fmt"
	"strings"
)

// Openable reports why an address must not be handed to a browser, or nil. It
// must begin with http:// or https:// and hold nothing that a program between
// here and the browser could take for an option, a command or a second argument
// (CVE-2025-6514 was an authorization address that reached a shell).
func Openable(address string) error {
	u, err := parseAddress(address)
	if err != nil {
		return fmt.Errorf("the address to sign in at is not opened: %w", err)
	}
	if u.String() != address || strings.ContainsFunc(u.RawQuery, func(r rune) bool { return !plainRune(r) && r != '&' }) {
		return errors.New("the address to sign in at is not opened: it is not written plainly")
	}
	return nil
}

// Browser returns the command that opens an address, as the words of its command
// line: no shell is involved.
func Browser(goos, address string) ([]string, error) {
	if err := Openable(address); err != nil {
		return nil, err
	}
	switch goos {
	case "darwin":
		return []string{"open", address}, nil
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", address}, nil
	}
	return []string{"xdg-open", address}, nil
}
