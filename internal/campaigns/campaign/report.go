package campaign

import (
	"context"
	"time"
)

// Report returns a page of a campaign's deliveries: see Reports.Deliveries.
func (s *Service) Report(ctx context.Context, app, id string, only *Outcome, limit int, cursor int64) (list []Delivery, next int64, err error) {
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return nil, 0, err
	}
	list, next, err = s.store.Deliveries(ctx, c.Num, only, limit, cursor)
	for i := range list {
		list[i].ID, list[i].Variant = DeliveryID(c.ID, list[i].Endpoint), c.Spec.Gets(list[i].Group)
	}
	return list, next, err
}

// ReportTo returns a campaign's deliveries to one recipient.
func (s *Service) ReportTo(ctx context.Context, app, id, recipient string) (list []Delivery, err error) {
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return nil, err
	}
	list, err = s.store.DeliveriesTo(ctx, app, c.Num, recipient)
	for i := range list {
		list[i].ID, list[i].Variant = DeliveryID(c.ID, list[i].Endpoint), c.Spec.Gets(list[i].Group)
	}
	return list, err
}

// Days returns counts by day of one campaign; if id is empty, of the app.
func (s *Service) Days(ctx context.Context, app, id string, from, to time.Time) ([]Day, error) {
	var num int64
	if id != "" {
		c, err := s.store.Get(ctx, app, id)
		if err != nil {
			return nil, err
		}
		num = c.Num
	}
	return s.store.Days(ctx, app, num, from, to)
}
