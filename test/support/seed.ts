/**
 * Returns the seed of a test with random cases: a new one in each run, or `TEST_SEED`. Tests print it when they fail, to repeat
 * the same cases. @throws RangeError if `TEST_SEED` is no integer
 */
export function testSeed(): number {
  const given = process.env['TEST_SEED']
  if (given === undefined || given === '') return Math.floor(Math.random() * 2 ** 31)
  const seed = Number(given)
  if (!Number.isSafeInteger(seed)) throw new RangeError('TEST_SEED must be a whole number')
  return seed
}
