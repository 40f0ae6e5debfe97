create schema realtime;
comment on schema realtime is 'Who may use private channels; not served.';

-- Policies on this table decide who may use a private channel. It never has rows: a row is inserted to find out what
-- the policies say, and rolled back.
create unlogged table realtime.messages (
  id          uuid primary key default gen_random_uuid(),
  topic       text not null,
  extension   text not null,
  inserted_at timestamptz not null default now(),

  constraint messages_extension_check check (extension in ('broadcast', 'presence'))
);

comment on table realtime.messages is
  'Its policies decide who may use private channels: select to receive, insert to send. It has no rows.';

-- Without a policy, private channels are refused.
alter table realtime.messages enable row level security;
