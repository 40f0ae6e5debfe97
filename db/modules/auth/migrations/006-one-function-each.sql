-- A sign-out, a change of the password, and the use of a token that shows whose a mailbox is, are one function each.
drop function if exists auth_api.prove_mailbox(bytea, auth.user_id, inet, timestamptz);
drop function if exists auth_api.take_mail_token(bytea, text[], integer, inet, timestamptz);
drop function if exists auth_api.end_epoch(auth.user_id);
drop function if exists auth_api.end_other_sessions(auth.user_id, uuid, timestamptz);
drop function if exists auth_api.set_password(auth.user_id, text, text, uuid, inet, timestamptz);
drop function if exists auth_api.change_password(auth.user_id, text, text, jsonb, inet);
