import { createRequire } from 'node:module'

/** The parts of fengari, a Lua machine in JavaScript, that a script of Redis needs. It has no types of its own. */
interface Fengari {
  readonly lua: {
    readonly LUA_REGISTRYINDEX: number
    readonly LUA_TBOOLEAN: number
    readonly LUA_TNIL: number
    readonly LUA_TNUMBER: number
    lua_call(state: State, args: number, results: number): void
    lua_createtable(state: State, items: number, fields: number): void
    lua_getglobal(state: State, name: Text): void
    lua_gettop(state: State): number
    lua_pcall(state: State, args: number, results: number, handler: number): number
    lua_pop(state: State, count: number): void
    lua_pushboolean(state: State, value: boolean): void
    lua_pushinteger(state: State, value: number): void
    lua_pushjsfunction(state: State, of: (state: State) => number): void
    lua_pushstring(state: State, text: Text): void
    lua_rawgeti(state: State, at: number, index: number): number
    lua_rawlen(state: State, at: number): number
    lua_rawseti(state: State, at: number, index: number): void
    lua_setfield(state: State, at: number, name: Text): void
    lua_setglobal(state: State, name: Text): void
    lua_toboolean(state: State, at: number): boolean
    lua_tojsstring(state: State, at: number): string
    lua_tonumber(state: State, at: number): number
    lua_type(state: State, at: number): number
    lua_istable(state: State, at: number): boolean
  }
  readonly lauxlib: {
    luaL_loadstring(state: State, text: Text): number
    luaL_newstate(): State
    luaL_ref(state: State, table: number): number
  }
  readonly lualib: { luaL_openlibs(state: State): void }
  to_luastring(text: string): Text
}
type State = { readonly lua: unique symbol }
type Text = { readonly text: unique symbol }

const { lua, lauxlib, lualib, to_luastring: text } = createRequire(import.meta.url)('fengari') as Fengari

/** What a command of Redis returns: a text, a whole number, nothing, or a list of these. */
export type Reply = string | number | null | readonly Reply[]
export type Call = (command: string, args: readonly string[]) => Reply

/** Runs the store's own scripts. Whole numbers have 32 bits here, so times in a script are below 35 minutes. */
export class LuaMachine {
  readonly #state = lauxlib.luaL_newstate()
  readonly #compiled = new Map<string, number>()
  #call: Call = () => null

  constructor() {
    const state = this.#state
    lualib.luaL_openlibs(state)
    this.#define('redis', { VERSION: 0x70000 })
    // Lua 5.1, which Redis has, calls it so.
    this.#run('unpack = table.unpack')
  }

  eval(script: string, keys: readonly string[], args: readonly string[], call: Call): Reply {
    const state = this.#state
    this.#call = call
    this.#list(keys)
    lua.lua_setglobal(state, text('KEYS'))
    this.#list(args)
    lua.lua_setglobal(state, text('ARGV'))
    const reply = this.#run(script)
    return reply
  }

  #run(script: string): Reply {
    const state = this.#state
    let at = this.#compiled.get(script)
    if (at === undefined) {
      if (lauxlib.luaL_loadstring(state, text(script)) !== 0) throw this.#error()
      at = lauxlib.luaL_ref(state, lua.LUA_REGISTRYINDEX)
      this.#compiled.set(script, at)
    }
    lua.lua_rawgeti(state, lua.LUA_REGISTRYINDEX, at)
    if (lua.lua_pcall(state, 0, 1, 0) !== 0) throw this.#error()
    const reply = this.#read(state, -1)
    lua.lua_pop(state, 1)
    return reply
  }

  #error(): Error {
    const message = lua.lua_tojsstring(this.#state, -1)
    lua.lua_pop(this.#state, 1)
    return new Error(`ERR ${message}`)
  }

  #define(name: string, { VERSION }: { readonly VERSION: number }): void {
    const state = this.#state
    lua.lua_createtable(state, 0, 2)
    lua.lua_pushjsfunction(state, (from) => this.#called(from))
    lua.lua_setfield(state, -2, text('call'))
    lua.lua_pushinteger(state, VERSION)
    lua.lua_setfield(state, -2, text('REDIS_VERSION_NUM'))
    lua.lua_setglobal(state, text(name))
  }

  #called(state: State): number {
    const [command = '', ...args] = Array.from({ length: lua.lua_gettop(state) }, (_, i) =>
      lua.lua_tojsstring(state, i + 1),
    )
    this.#push(this.#call(command, args))
    return 1
  }

  #list(items: readonly Reply[]): void {
    lua.lua_createtable(this.#state, items.length, 0)
    for (const [i, item] of items.entries()) {
      this.#push(item)
      lua.lua_rawseti(this.#state, -2, i + 1)
    }
  }

  #push(value: Reply): void {
    // Nothing is false in a script.
    if (value === null) lua.lua_pushboolean(this.#state, false)
    else if (typeof value === 'string') lua.lua_pushstring(this.#state, text(value))
    else if (typeof value === 'number') lua.lua_pushinteger(this.#state, value)
    else this.#list(value)
  }

  #read(state: State, at: number): Reply {
    const type = lua.lua_type(state, at)
    if (type === lua.LUA_TNIL || type < 0) return null
    if (type === lua.LUA_TBOOLEAN) return lua.lua_toboolean(state, at) ? 1 : null
    if (type === lua.LUA_TNUMBER) return Math.trunc(lua.lua_tonumber(state, at))
    if (!lua.lua_istable(state, at)) return lua.lua_tojsstring(state, at)
    return Array.from({ length: lua.lua_rawlen(state, at) }, (_, i) => {
      lua.lua_rawgeti(state, at, i + 1)
      const item = this.#read(state, -1)
      lua.lua_pop(state, 1)
      return item
    })
  }
}
