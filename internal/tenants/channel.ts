import type { RedisConnection } from '#internal/storage/index.ts'

/** The channel on which whoever wrote tenants says so, for the directories of all processes. The message means nothing. */
export const directoryChannel = 'latchkey:tenants'

/** Tells the directories of all processes that tenants changed. Repeating it is harmless. @throws RedisUnavailable: they will poll */
export async function tellDirectories(redis: RedisConnection): Promise<void> {
  await redis.publish(directoryChannel, '')
}
