export type { Principal } from './api-key.ts'
export { authenticateApiKey } from './api-key.ts'
