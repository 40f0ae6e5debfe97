-- An account that is added for a row has the metadata of the row.
drop function if exists auth.try_add_account(auth.user_id, text, text, text, timestamptz, timestamptz);
