-- The removal of a second factor is one function.
drop function if exists auth_api.disable_factor(auth.user_id, text, jsonb, inet, timestamptz);
drop function if exists auth_api.remove_passkey(auth.user_id, uuid, text, jsonb, inet, timestamptz);
