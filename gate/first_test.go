package gate

import "context"

func (c *scripted) Shown(ctx context.Context, _ string) { c.Settled(ctx) }
func (*shop) Shown(context.Context, string)             {}
