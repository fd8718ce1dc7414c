export { contractRoutes } from './http.ts'
export { publicContract } from './public.v1.ts'
