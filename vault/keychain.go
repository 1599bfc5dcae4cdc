package vault

import (
	"errors"

	"github.com/zalando/go-keyring"
)

// OSKeychain is the operating system's own: Keychain on macOS, Credential Manager
// on Windows, the Secret Service elsewhere.
type OSKeychain struct{}

// Get returns a secret of a person.
func (OSKeychain) Get(service, user string) (string, error) {
	secret, err := keyring.Get(service, user)
	if errors.Is(err, keyring.ErrNotFound) {
		return "", ErrNotFound
	}
	return secret, err
}

// Set keeps a secret of a person.
func (OSKeychain) Set(service, user, secret string) error {
	return keyring.Set(service, user, secret)
}
