/** Result of a call of openapi-fetch. */
type Result<Data, Problem> =
  | { readonly data: Data; readonly error?: never; readonly response: Response }
  | { readonly data?: never; readonly error: Problem; readonly response: Response }

/** Returns the data of a call. @throws if the call failed */
export function dataOf<Data, Problem>(result: Result<Data, Problem>): Data {
  if (result.error !== undefined || result.data === undefined)
    throw new Error(`${result.response.status} ${result.response.url}: ${JSON.stringify(result.error)}`)
  return result.data
}

/** Returns the error of a call. @throws if the call succeeded */
export function errorOf<Data, Problem>(result: Result<Data, Problem>): Problem {
  if (result.error === undefined) throw new Error(`${result.response.status} ${result.response.url}`)
  return result.error
}

/** Returns an environment variable. @throws if it is not set */
export function environment(name: string): string {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set`)
  return value
}
