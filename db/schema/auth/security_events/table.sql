-- Sign-ins, failures and changes of accounts. For service_role, over /rest/v1 too.
create table public.security_events (
  id      bigint generated always as identity primary key,
  at      timestamptz not null default now(),
  event   text not null,
  user_id bigint, -- null if unknown; no foreign key: events outlive users
  address inet, -- null if no client caused it
  detail  jsonb not null default '{}'
);
-- Events of a user, newest first.
create index security_events_user_id_at_idx on public.security_events (user_id, at desc);
-- Events, newest first, and deleting old ones.
create index security_events_at_idx on public.security_events (at desc);

comment on table public.security_events is $$
@behavior -query:resource:list -query:resource:connection -query:resource:single -insert -update -delete
Sign-ins, failures and changes of accounts.
$$;
comment on column public.security_events.id is 'Assigned by the database, increasing.';
comment on column public.security_events.at is 'When it happened.';
comment on column public.security_events.event is
  'What happened: login, login_failed, login_throttled, logout, token_reused, password_changed …';
comment on column public.security_events.user_id is 'The user whose account it is.';
comment on column public.security_events.address is 'The IP address of the client.';
comment on column public.security_events.detail is 'Further details; no secrets.';
