create schema realtime;
comment on schema realtime is 'Who may use private channels, and their stored broadcasts; not served.';

-- Policies on this table decide who may use a private channel. To find out what they say, a row is inserted and rolled
-- back.
create table realtime.messages (
  id             uuid primary key default gen_random_uuid(),
  topic          text not null,
  extension      text not null,
  inserted_at    timestamptz not null default clock_timestamp(), -- the broadcasts of one transaction have an order
  event          text,
  payload        jsonb,
  binary_payload bytea,
  private        boolean not null default false, -- true for a stored broadcast

  constraint messages_extension_check check (extension in ('broadcast', 'presence')),
  constraint messages_payload_check check (payload is null or binary_payload is null)
);
-- The broadcasts of a channel, newest first.
create index messages_topic_inserted_at_idx on realtime.messages (topic, inserted_at desc) where private;
-- Those that are no longer kept.
create index messages_inserted_at_idx on realtime.messages (inserted_at) where private;

comment on table realtime.messages is $$
Its policies decide who may use private channels: select to receive, insert to send. Its rows are the broadcasts that
SQL has sent to private channels in the last 72 hours.
$$;

-- Without a policy, private channels are refused.
alter table realtime.messages enable row level security;
