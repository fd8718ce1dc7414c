import { dropTemplates } from './stores/database.ts'
import { stopRunning } from './stores/running.ts'

export { createTestDatabase, type TestDatabase } from './stores/database.ts'
export {
  createTestPostgres,
  createTestRedis,
  type TestPostgres,
  type TestRedis,
  type TestRedisOptions,
  testStores,
} from './stores/running.ts'

/** Ends all stores that this process's tests started. The preload calls it after the last file. */
export async function stopTestStores(): Promise<void> {
  try {
    await dropTemplates()
  } finally {
    await stopRunning()
  }
}
