-- A sign-out and a change of the password are one function each.
drop function if exists auth_api.end_epoch(auth.user_id);
drop function if exists auth_api.end_other_sessions(auth.user_id, uuid, timestamptz);
drop function if exists auth_api.set_password(auth.user_id, text, text, uuid, inet, timestamptz);
drop function if exists auth_api.change_password(auth.user_id, text, text, jsonb, inet);
