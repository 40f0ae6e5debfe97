-- Broadcasts from SQL to private channels are stored.
comment on schema realtime is 'Who may use private channels, and their stored broadcasts; not served.';
alter table realtime.messages set logged;
alter table realtime.messages
  add column if not exists event text,
  add column if not exists payload jsonb,
  add column if not exists binary_payload bytea,
  add column if not exists private boolean not null default false,
  alter column inserted_at set default clock_timestamp(),
  add constraint messages_payload_check check (payload is null or binary_payload is null);
create index messages_topic_inserted_at_idx on realtime.messages (topic, inserted_at desc) where private;
create index messages_inserted_at_idx on realtime.messages (inserted_at) where private;
comment on table realtime.messages is $$
Its policies decide who may use private channels: select to receive, insert to send. Its rows are the broadcasts that
SQL has sent to private channels in the last 72 hours.
$$;
