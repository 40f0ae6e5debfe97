-- Without a policy, private channels are refused.
alter table realtime.messages enable row level security;
grant select, insert (topic, extension) on realtime.messages to anon, authenticated, service_role;
