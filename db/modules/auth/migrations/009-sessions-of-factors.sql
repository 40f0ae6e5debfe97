-- The deletion of a factor ends or lowers the sessions that may have proved it.
drop function if exists auth_private.delete_factors(auth.user_id, uuid[], jsonb, timestamptz);
drop function if exists auth_private.lower_sessions(auth.user_id, uuid);
