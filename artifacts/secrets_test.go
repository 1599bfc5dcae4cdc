package artifacts

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/internal/strictjson"
)

// random returns n characters of an alphabet. No secret of these tests was
// ever anybody's.
func random(r *rand.Rand, n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

const (
	upper     = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	alnum     = upper + "abcdefghijklmnopqrstuvwxyz0123456789"
	urlSafe   = alnum + "_-"
	hexLower  = "0123456789abcdef"
)

func secretsOf(r *rand.Rand) map[string]string {
	jwt := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return map[string]string{
		"aws-access-key-id":         "AKIA" + random(r, 16, letters32),
		"github-token":              "ghp_" + random(r, 36, alnum),
		"github-fine-grained-token": "github_pat_" + random(r, 22, alnum) + "_" + random(r, 59, alnum),
		"gitlab-token":              "glpat-" + random(r, 20, alnum),
		"slack-token":               "xoxb-" + random(r, 12, "123456789") + "-" + random(r, 24, alnum),
		"slack-webhook":             "https://hooks.slack.com/services/T" + random(r, 8, upper) + "/B" + random(r, 8, upper) + "/" + random(r, 24, alnum),
		"stripe-key":                "sk_" + "live_" + random(r, 24, alnum),
		"google-api-key":            "AIza" + random(r, 35, urlSafe),
		"google-oauth-secret":       "GOCSPX-" + random(r, 28, urlSafe),
		"private-key":               "-----BEGIN RSA PRIVATE KEY-----\n" + random(r, 64, alnum) + "\n" + random(r, 64, alnum) + "\n-----END RSA PRIVATE KEY-----",
		"jwt":                       jwt(`{"alg":"HS256","typ":"JWT"}`) + "." + jwt(`{"sub":"1234567890","iat":1}`) + "." + random(r, 43, urlSafe),
		"npm-token":                 "npm_" + random(r, 36, alnum),
		"openai-key":                "sk-proj-" + random(r, 64, urlSafe) + random(r, 8, alnum),
		"anthropic-key":             "sk-ant-api03-" + random(r, 93, urlSafe) + "AA",
		"huggingface-token":         "hf_" + random(r, 34, alnum),
		"sendgrid-key":              "SG." + random(r, 22, urlSafe) + "." + random(r, 43, urlSafe),
		"digitalocean-token":        "dop_v1_" + random(r, 64, hexLower),
		"shopify-token":             "shpat_" + random(r, 32, hexLower),
		"age-secret-key":            "AGE-SECRET-KEY-1" + random(r, 58, "0123456789"+upper),
	}
}

func TestSecretsAreReplaced(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 40 {
		for name, secret := range secretsOf(r) {
			for _, frame := range []string{"%s", "key: %s\n", "export X=\"%s\"", "(%s)", "a %s, b"} {
				text := fmt.Sprintf(frame, secret)
				got, found := Redact(text)
				if strings.Contains(got, secret) || len(found) != 1 {
					t.Fatalf("%s in %q: %q, found %v", name, frame, got, found)
				}
				if found[0].Name != name {
					t.Errorf("%s is called %s", name, found[0].Name)
				}
				if text[found[0].Start:found[0].End] == "" || !HasRedaction([]byte(got)) {
					t.Errorf("%s: no mark in %q", name, got)
				}
				inJSON, _ := RedactJSON(json.RawMessage(`{"a":[1,` + quote(text) + `],"n":12345678901234567890}`))
				if strings.Contains(string(inJSON), secret) || strictjson.Check(inJSON) != nil || !strings.HasSuffix(string(inJSON), `"n":12345678901234567890}`) {
					t.Fatalf("%s in JSON: %s", name, inJSON)
				}
			}
		}
	}
}

func TestNamedSecretsAreReplaced(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, format := range []string{
		"API_KEY=%s", "api-key: %s", `"client_secret": "%s"`, "db.password = '%s'", "export MY_AUTH_TOKEN=\"%s\"",
		"postgres://app:%s@db.internal:5432/app", `Authorization: Bearer %s`,
	} {
		for range 20 {
			secret := "7a9" + random(r, 37, alnum)
			if got, found := Redact(fmt.Sprintf(format, secret)); strings.Contains(got, secret) || len(found) != 1 {
				t.Errorf("%s: %q, found %v", format, got, found)
			}
		}
	}
	secret := "7a9" + random(r, 29, alnum)
	for _, value := range []string{`{"password":"` + secret + `"}`, `{"x":{"api_key" : "` + secret + `"},"y":[]}`} {
		got, found := RedactJSON(json.RawMessage(value))
		if strings.Contains(string(got), secret) || len(found) != 1 || strictjson.Check(got) != nil {
			t.Errorf("%s becomes %s, found %v", value, got, found)
		}
	}
}

// What is no secret stays: a redaction destroys what the model works with.
func TestNothingElseIsReplaced(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	benign := []string{
		"The password is checked against a hash, and the access token expires after an hour.",
		"password: changeme-placeholder-1234567890", "API_KEY=${API_KEY_FROM_ENVIRONMENT_1}", "api_key = os.environ[\"SERVICE_API_KEY_2\"]",
		"token: process.env.SERVICE_ACCESS_TOKEN1", "password: /run/secrets/db_password_file_2", "secret: my-team/prod/database-credentials",
		"secretName: web-tls-certificate-2024", "sk-learn is a library; sk-something-else too", "next_page_token: CAUQAAoICAESBAgFEAEyBggBEgIIBQ",
		"AKIA is a prefix, and so is ghp_", "xoxo-love-and-kisses", "github_pat_ is how they begin", "eyJhbGciOiJub25lIn0", "https://user@example.com/path",
		"https://example.com:8080/a/b?x=1", "npm_config_registry=https://registry.example.com/", "\"access_key_id\": \"see the vault\"",
		"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
		"-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ\n-----END CERTIFICATE-----", "hf_hub_download(repo_id=\"a/b\")",
		"func Token(ctx context.Context, credential string) (access_token string, err error)",
		"The credential: see `internal/auth/credential_provider_v2.go` and its tests.",
	}
	for range 300 {
		id := make([]byte, 48)
		for i := range id {
			id[i] = byte(r.UintN(256))
		}
		benign = append(benign,
			fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
			fmt.Sprintf("commit %x", id[:20]), fmt.Sprintf("sha256:%x", id[:32]), fmt.Sprintf("sha512-%s", base64.StdEncoding.EncodeToString(id)),
			fmt.Sprintf(`{"digest":"%x","etag":"W/\"%x\"","cursor":"%s"}`, id[:32], id[:16], base64.StdEncoding.EncodeToString(id[:24])),
			"data:image/png;base64,iVBORw0KGgo"+base64.StdEncoding.EncodeToString(noise(600)),
			random(r, 64, alnum), random(r, 12, "0123456789")+" "+random(r, 40, "abcdefghijklmnopqrstuvwxyz "),
		)
	}
	for _, text := range benign {
		if got, found := Redact(text); got != text || found != nil {
			t.Errorf("%.80q becomes %.80q (%v)", text, got, found)
		}
		value := json.RawMessage(`{"v":` + quote(text) + `}`)
		if got, found := RedactJSON(value); string(got) != string(value) || found != nil {
			t.Errorf("%.80s becomes %.80s (%v)", value, got, found)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("password=hunter2hunter2hunter2", []byte(`{"password":"x"}`))
	f.Add("-----BEGIN PRIVATE KEY-----\nAAAA", []byte(`[1,"\ud800",{"a":"ghp_`+strings.Repeat("a1B2", 9)+`"}]`))
	f.Fuzz(func(t *testing.T, text string, value []byte) {
		got, found := Redact(text)
		if (got == text) != (len(found) == 0) {
			t.Fatalf("%q becomes %q with %v", text, got, found)
		}
		if strictjson.Check(value) != nil {
			return
		}
		if out, _ := RedactJSON(value); strictjson.Check(out) != nil && len(found) == 0 {
			t.Fatalf("%q becomes %q, which is no JSON", value, out)
		}
	})
}
