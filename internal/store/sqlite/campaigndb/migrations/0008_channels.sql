-- Endpoints of one channel, in the order of numbers: few among many of another are found without looking at those.
CREATE INDEX endpoint_channel ON endpoint(app, channel, active, number);
-- Deliveries that ended otherwise than accepted: few among many. Waiting deliveries have indexes of their own.
CREATE INDEX delivery_ended ON delivery(campaign, outcome, endpoint) WHERE outcome > 2;
