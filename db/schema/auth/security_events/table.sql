-- Who signed in, who failed to, and what was changed about it. For service_role, over /rest/v1 too.
create table public.security_events (
  id      bigint generated always as identity primary key,
  at      timestamptz not null default now(),
  event   text not null,
  user_id bigint, -- null when it is not known; no foreign key: events outlive users
  address inet, -- null when it came from no client
  detail  jsonb not null default '{}'
);
-- Events of a user, newest first.
create index security_events_user_id_at_idx on public.security_events (user_id, at desc);
-- Events, newest first, and those that are old enough to be forgotten.
create index security_events_at_idx on public.security_events (at desc);

comment on table public.security_events is $$
@behavior -query:resource:list -query:resource:connection -query:resource:single -insert -update -delete
What has happened to accounts: sign-ins, failures, changes.
$$;
comment on column public.security_events.id is 'Assigned by the database, increasing.';
comment on column public.security_events.at is 'When it has happened.';
comment on column public.security_events.event is 'What has happened: login, login_failed, login_throttled, logout, token_reused, password_changed …';
comment on column public.security_events.user_id is 'Whose account it is.';
comment on column public.security_events.address is 'The client''s address.';
comment on column public.security_events.detail is 'What else is known of it; no secrets.';
