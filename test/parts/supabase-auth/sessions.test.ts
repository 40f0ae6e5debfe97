import { describe } from "vitest";
import { testSessions } from "./sessions.ts";

describe("supabase.auth", () => testSessions("bigint"));
