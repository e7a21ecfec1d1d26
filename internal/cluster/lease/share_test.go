package lease_test

import (
	"context"
	"testing"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/lease/leasetest"
)

// part is a part of a server that wants a lease.
type part struct {
	begun, ended chan struct{}
	giveUp       chan struct{} // when it receives a value, its run returns early
	release      func()
}

func ask(f lease.Func, name string) *part {
	p := &part{begun: make(chan struct{}, 10), ended: make(chan struct{}, 10), giveUp: make(chan struct{})}
	p.release = f(name, func(ctx context.Context, _ func() bool) {
		p.begun <- struct{}{}
		select {
		case <-ctx.Done():
		case <-p.giveUp:
		}
		p.ended <- struct{}{}
	})
	return p
}

func TestPartsOfAServerOwnANameTogether(t *testing.T) {
	leases := leasetest.New()
	first, second := lease.Share(leases.Server(0)), lease.Share(leases.Server(1))
	a, b := ask(first, "shop"), ask(first, "shop")
	<-a.begun
	<-b.begun
	x := ask(second, "shop")
	late := ask(first, "shop") // while it is owned already
	<-late.begun
	a.release()
	<-a.ended
	if len(b.ended)+len(late.ended)+len(x.begun) > 0 || leases.Held() != 1 {
		t.Fatal("one of three has left, and not it alone has ended")
	}
	leases.Give("shop", 1)
	<-b.ended
	<-late.ended
	<-x.begun
	leases.Give("shop", 0)
	<-x.ended
	<-b.begun
	<-late.begun
	b.giveUp <- struct{}{}
	<-late.ended // both lose the lease, and get it again
	<-late.begun
	<-b.ended
	<-b.begun
	b.release()
	late.release()
	late.release() // which changes nothing
	x.release()
	if n := leases.Held(); n != 0 {
		t.Errorf("%d names are held that nobody asks for", n)
	}
	again := ask(first, "shop")
	<-again.begun
	again.release()
}

// TestRequestDuringReleaseGetsTheLease: a part requests the lease while its last user releases it.
func TestRequestDuringReleaseGetsTheLease(t *testing.T) {
	leaving, goes := make(chan struct{}), make(chan struct{})
	f := lease.Share(func(name string, run func(context.Context, func() bool)) func() {
		release := lease.Alone(context.Background())(name, run)
		return func() {
			select {
			case leaving <- struct{}{}:
				<-goes
			case <-goes:
			}
			release()
		}
	})
	a := ask(f, "shop")
	<-a.begun
	left := make(chan struct{})
	go func() { a.release(); close(left) }()
	<-leaving
	b := ask(f, "shop")
	<-b.begun // in the term that is about to end
	close(goes)
	<-left
	<-b.ended
	<-b.begun
	b.release()
	<-b.ended
}
