--! Previous: sha1:c75194608ec047f8564db8a6ecc94f59e141aaac
--! Hash: sha1:fe284a884901d053a6a7f028a7d05d5997ae736d
--! Message: security events are described

comment on column public.security_events.id is 'Assigned by the database, increasing.';
comment on column public.security_events.at is 'When it has happened.';
