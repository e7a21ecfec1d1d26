// Package chromium starts Chromium for tests, which control it with chromedp.
package chromium

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/test/blackbox"
)

// options leave out V8's optimizing compilers: pages of tests are gone before those have paid off, and a quarter of the time with them.
var options = append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1200, 860), chromedp.Flag("js-flags", "--no-opt --no-maglev"))

// Start starts the browser for pages that need neither push nor permissions. It ends with the test, after patience at the latest.
func Start(t testing.TB, patience time.Duration) context.Context {
	t.Helper()
	return StartProgram(t, blackbox.Pages(t), patience)
}

// StartProgram starts another browser of Chromium's kind.
func StartProgram(t testing.TB, program string, patience time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("the browser was not done in %s", patience))
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(options[:len(options):len(options)], chromedp.ExecPath(program))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context it was started with
		t.Fatalf("start the browser: %v", err)
	}
	return ctx
}
