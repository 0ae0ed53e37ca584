// Command bench says how many holds a second: clients x goroutines, each of which takes and gives back a mutex of its own.
// It prints one number.
//
//	go run ./bench 127.0.0.1:3144 [--clients 4] [--tasks 64] [--seconds 5]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"tenure.dev/go"
)

func main() {
	clients := flag.Int("clients", 4, "how many clients, each with a connection of its own")
	tasks := flag.Int("tasks", 64, "how many goroutines of each client")
	seconds := flag.Float64("seconds", 5, "for how long")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: bench ADDRESS [--clients 4] [--tasks 64] [--seconds 5]")
		flag.PrintDefaults()
	}
	if len(os.Args) < 2 {
		flag.Usage()
		os.Exit(2)
	}
	// It ends the program if they cannot be understood.
	_ = flag.CommandLine.Parse(os.Args[2:])
	rate, err := measure(os.Args[1], *clients, *tasks, time.Duration(*seconds*float64(time.Second)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%.0f\n", rate)
}

func measure(address string, clients, tasks int, length time.Duration) (float64, error) {
	ctx := context.Background()
	var connected []*tenure.Client
	for range clients {
		client, err := tenure.Connect(ctx, tenure.Config{Address: address})
		if err != nil {
			return 0, err
		}
		defer client.Close(ctx)
		connected = append(connected, client)
	}
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		count int
		first error
	)
	begun := time.Now()
	end := begun.Add(length)
	for number, client := range connected {
		for task := range tasks {
			all.Add(1)
			go func() {
				defer all.Done()
				held, err := work(ctx, client, fmt.Sprintf("bench-%d-%d", number, task), end)
				mu.Lock()
				defer mu.Unlock()
				count += held
				if first == nil {
					first = err
				}
			}()
		}
	}
	all.Wait()
	return float64(count) / time.Since(begun).Seconds(), first
}

func work(ctx context.Context, client *tenure.Client, pool string, end time.Time) (int, error) {
	count := 0
	for time.Now().Before(end) {
		hold, err := client.Hold(ctx, pool)
		if err != nil {
			return count, err
		}
		count++
		if err := hold.Release(ctx); err != nil {
			return count, err
		}
	}
	return count, nil
}
