//go:build !linux

package reactor

import "fmt"

const bestDriver = DriverGoroutine

func newPoller(driver string) (poller, error) {
	if driver != DriverGoroutine {
		return nil, fmt.Errorf("there is no driver %q on this system", driver)
	}
	return newChanPoller(), nil
}
