import { describe } from "vitest";
import { testAdmin } from "./admin.ts";

describe("supabase.auth.admin", () => testAdmin("bigint"));
