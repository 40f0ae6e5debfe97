-- Sign-ins, failures and changes of accounts. For service_role, over /rest/v1 too.
create or replace view public.security_events as
  select e.id, e.at, e.event, e.user_id::bigint as user_id, e.address, e.detail, e.operator
  from auth_private.security_events as e;

comment on view public.security_events is $$
@behavior -query:resource:list -query:resource:connection -query:resource:single -insert -update -delete
@accept view-without-security-invoker only service_role, which bypasses policies, may read it
Sign-ins, failures and changes of accounts.
$$;
comment on column public.security_events.id is 'Assigned by the database, increasing.';
comment on column public.security_events.at is 'When it happened.';
comment on column public.security_events.event is
  'What happened: login, login_failed, login_throttled, logout, token_reused, password_changed …';
comment on column public.security_events.user_id is 'The user whose account it is.';
comment on column public.security_events.address is 'The IP address of the client.';
comment on column public.security_events.detail is 'Further details; no secrets.';
comment on column public.security_events.operator is
  'Who acted instead of the user: "user 3", "role service_role", or "login content" for SQL; null if the user acted.';

grant select on public.security_events to service_role;
