import { testPostgis } from "./postgis.ts";
import { useZoo } from "./zoo.ts";
import { testZoo } from "./zoo-tests.ts";

testZoo(useZoo());
testPostgis();
