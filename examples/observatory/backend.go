package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	godwit "godwit.dev/godwit/clients/go"
)

// Limits of one request to the back end.
const (
	mostPuts = 100_000
	mostRate = 10_000 // a second
)

// backend publishes when asked over HTTP. In a real observatory it would sit beside the database of configurations.
type backend struct{ client *godwit.Client }

func (b *backend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /notify/{group}/{object}/{n}/{rate}", b.notify)
	mux.HandleFunc("GET /units/{group}/{object}", b.units)
	return mux
}

// notified is the answer to a request to notify.
type notified struct {
	Group   string         `json:"group"`
	Object  string         `json:"object"`
	Puts    int            `json:"puts"`
	Version godwit.Version `json:"version"` // the last
}

// notify puts n new versions of an object, rate of them a second, and answers when the last one is stored.
func (b *backend) notify(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 1 || n > mostPuts {
		http.Error(w, "n must be a number from 1 to "+strconv.Itoa(mostPuts), http.StatusBadRequest)
		return
	}
	rate, err := strconv.ParseFloat(r.PathValue("rate"), 64)
	if err != nil || !(rate > 0) || rate > mostRate {
		http.Error(w, "rate must be a number of puts a second, at most "+strconv.Itoa(mostRate), http.StatusBadRequest)
		return
	}
	done := notified{Group: r.PathValue("group"), Object: r.PathValue("object")}
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	for done.Puts < n {
		if done.Puts > 0 {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return // nobody waits for the rest
			}
		}
		put, err := b.client.PutObject(r.Context(), done.Group, done.Object, godwit.ObjectPut{})
		if err != nil {
			fail(w, err)
			return
		}
		done.Puts, done.Version = done.Puts+1, put.Version
	}
	answer(w, done)
}

// units lists the units that are registered for an object, and the version that each has.
func (b *backend) units(w http.ResponseWriter, r *http.Request) {
	list, err := b.client.Registrations(r.Context(), r.PathValue("group"), r.PathValue("object"))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, list)
}

func fail(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	var e *godwit.Error
	switch {
	case errors.As(err, &e):
		status = e.Status
	case errors.Is(err, context.Canceled):
		return
	}
	http.Error(w, err.Error(), status)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a failed write means that the client has disconnected
}
