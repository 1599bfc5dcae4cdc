package transport

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLostNotificationsFillNoLog(t *testing.T) {
	var log bytes.Buffer
	take := make(told, 1).take(&conn{log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 100_001 {
		take("notifications/message", nil)
	}
	if got := log.String(); strings.Count(got, "\n") != 17 || !strings.Contains(got, "lost=65536") {
		t.Errorf("100,000 lost ones give %d lines:\n%s", strings.Count(got, "\n"), got)
	}
}
