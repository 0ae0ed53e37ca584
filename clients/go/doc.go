// Package tenure takes turns with others by a Tenure server: locks, semaphores, pools of named resources, rate windows and
// elections.
//
//	client, err := tenure.Connect(ctx, tenure.Config{Address: "127.0.0.1:3144"})
//	…
//	defer client.Close(ctx)
//	hold, err := client.Hold(ctx, "nightly-report", tenure.TTL(30*time.Second))
//	…
//	defer hold.Release(ctx)
//	err = writeReport(hold.Context(), hold.Token())
//
// A client has one session and one stream for any number of goroutines. Holds are renewed in the background, and survive a
// lost connection and a restart of the server as long as their leases and the session's grace last. A hold's Context ends
// when the hold is lost. A process that was paused notices only when it goes on: that is what Token and Fence are for.
//
// What the words mean is in docs/concepts.md of the server.
package tenure

// Version is that of the server this client was made with.
const Version = "0.1.0"
