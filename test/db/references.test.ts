import { expect, test } from "vitest";
import { referenceFault } from "../../db/references.ts";

const fault = (message: string, more: object = {}) =>
  referenceFault({ code: "23503", table: "tasks", constraint: "tasks_fkey", message, ...more } as never);

// The translations of PostgreSQL.
test.each([
  'insert or update on table "tasks" violates foreign key constraint "tasks_fkey"',
  "Einfügen oder Aktualisieren in Tabelle »tasks« verletzt Fremdschlüssel-Constraint »tasks_fkey«",
  "une instruction insert ou update sur la table « tasks » viole la contrainte de clé étrangère « tasks_fkey »",
  "inserción o actualización en la tabla «tasks» viola la llave foránea «tasks_fkey»",
])("%s: the row refers to one that does not exist", (message) => expect(fault(message)).toBe("missing"));

test.each([
  'update or delete on table "projects" violates foreign key constraint "tasks_fkey" on table "tasks"',
  'update or delete on table "tasks" violates foreign key constraint "tasks_fkey" on table "tasks"',
  "Aktualisieren oder Löschen in Tabelle »projects« verletzt Fremdschlüssel-Constraint »tasks_fkey« von Tabelle »tasks«",
  "UPDATE ou DELETE sur la table « projects » viole la contrainte de clé étrangère « tasks_fkey » de la table « tasks »",
  "update o delete en «projects» viola la llave foránea «tasks_fkey» en la tabla «tasks»",
])("%s: other rows refer to it", (message) => expect(fault(message)).toBe("used"));

test("a RESTRICT of PostgreSQL 18 is about other rows", () => expect(fault("", { code: "23001" })).toBe("used"));

test.each([
  ["of a unique constraint", { code: "23505" }],
  ["that a function raises", { routine: "exec_stmt_raise" }],
  ["without a constraint", { constraint: undefined }],
])("an error %s is about no reference", (_, more) => expect(fault('"a" "b" "c"', more)).toBeNull());
