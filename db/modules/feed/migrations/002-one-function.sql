-- One function adds a table to the publication, and removes it.
drop function if exists changes.publish_table(regclass), changes.unpublish_table(regclass);
