package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-gate/mcp-gate/engagement"
)

// defined builds a tool from what its server would send.
func defined(t testing.TB, server, definition string) Tool {
	t.Helper()
	tool, err := NewTool(server, json.RawMessage(definition))
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestClassOfAName(t *testing.T) {
	const (
		read  = engagement.Read
		write = engagement.ReversibleWrite
		file  = engagement.SourceFileWrite
		harm  = engagement.Destructive
	)
	for _, tt := range []struct {
		claim, server, name, description string
		want                             engagement.Permission
	}{
		{"a noun that is a verb says nothing after a reading verb", "shop", "list_orders", "", read},
		{"nor before a word for a state", "shop", "order_status", "Gets the status.", read},
		{"a log of calls is read", "crm", "get_call_log", "", read},
		{"a count of what was sent is read", "mail", "send_count", "", read},
		{"camelCase is taken apart", "x", "deleteUserAccount", "", harm},
		{"kebab-case too", "x", "create-issue", "", write},
		{"and dots", "x", "files.delete", "", harm},
		{"a namespace is not a verb", "github", "github_create_issue", "", write},
		{"an HTTP method before a search is a search", "notion", "API-post-search", "Search by title", read},
		{"an HTTP method before a thing makes one", "notion", "API-post-page", "Create a page", write},
		{"a merge request merges nothing", "gitlab", "create_merge_request", "", write},
		{"merging one does", "gitlab", "merge_merge_request", "", harm},
		{"a message to people cannot be taken back", "chat", "create_message", "", harm},
		{"a draft can", "mail", "create_draft_message", "", write},
		{"a comment can be deleted again", "github", "post_comment", "", write},
		{"a label can be put back", "github", "remove_label", "", write},
		{"money cannot", "bank", "create_transfer", "", harm},
		{"files are the user's", "fs", "create_file", "", file},
		{"so are spreadsheets, named by the server only", "excel", "create_table", "Adds a table", file},
		{"a conjunction joins verbs", "x", "get_and_delete_item", "", harm},
		{"a verb may stand at the end", "pages", "project_create", "", write},
		{"a search that is run is a search", "x", "run_search", "", read},
		{"a chart that is generated changes nothing", "chart", "generate_bar_chart", "", read},
		{"a verb with re or un before it is one", "x", "unpublish_page", "", harm},
		{"a description decides where the name cannot", "x", "subscriptions", "Permanently deletes a subscription.", harm},
		{"a participle is no verb", "x", "get_deleted_items", "Lists deleted items.", read},
		{"what nothing tells is destructive", "x", "frobnicate", "", harm},
		{"a description that deletes outweighs a name that reads", "x", "get_report", "Deletes all records and returns a report.", harm},
		{"a label that is deleted is gone", "mail", "delete_label", "Deletes a label.", harm},
		{"one taken from a thing can be put back", "tracker", "delete_label", "Deletes a label from an issue.", write},
		{"what undoes a change of a file changes it", "excel", "unmerge_cells", "", file},
		{"what is unpacked lies on the disk", "x", "extract_firmware", "Extracts the archive.", file},
		{"a noun of finding out is read", "net", "os_detection", "", read},
		{"that it is a tool goes without saying", "x", "ListIndexesTool", "", read},
		{"\"apply\" is no adverb", "x", "timeline_filter", "Apply a filter to the timeline.", write},
		{"an unknown verb with an object is no sign of reading", "x", "ring_history", "Squash the past.", harm},
		{"what manages a list is no list", "crm", "manage_list_entries", "Manage the entries of a list.", write},
		{"and takes away where it says so", "crm", "manage_pages", "Manages pages: list, add, delete.", harm},
		{"a form that may be a noun is a verb before an article", "x", "batch_log_items", "Logs multiple items at once.", write},
		{"and none before a preposition", "x", "worker_tail", "Logs of the worker.", read},
		{"a description that switches outweighs a name that reads", "net", "locate_light", "Toggle the locator light.", write},
		{"what a user might ask for is not what the tool does", "x", "handbook_search", "If a user asks to migrate a server, search here.", read},
		{"a thing that is named like a verb may be got", "monitor", "trigger_get", "Get triggers.", read},
		{"but not where both are said", "x", "purge_and_get", "Gets what was purged.", harm},
		{"a thread that is started in a chat is read by people", "teams", "open_thread", "Open a thread.", harm},
		{"messages that are consumed are read", "kafka", "consume_messages", "Consumes messages of a topic.", read},
		{"a verb before a word that reads is one where the description says so too", "x", "close_debug_session", "Close a debugging session", write},
		{"alerts are resolved by changing them", "x", "resolve-alerts-by-pattern", "Resolve all alerts matching a specific pattern ID", write},
		{"a box that is checked is changed", "browser", "page_check", "Check a checkbox or radio button", write},
		{"what is done to others in passing is done", "game", "request-check", "Request a check from a player, posting a button to their chat.", harm},
		{"a map of pins pins nothing", "chart", "generate_pin_map", "Generate a map of points", read},
		{"an address is not", "x", "resolve_host", "Resolve a host name", read},
		{"what is stored in an order is put into another", "cms", "sort-document", "Sorts the order of documents under a parent.", write},
		{"a tool that calls itself destructive is", "x", "rename_form", "Rename a form. This is a destructive action.", harm},
		{"one that denies it is not", "x", "rename_form", "Rename a form. This is not destructive.", write},
		{"a solution that is written to the file changes it", "x", "solve_one", "Solve a goal. By default, writes the solution to the file.", file},
		{"operations that are performed are no audit", "x", "perform_operations", "Perform administrative operations including security audits", write},
		{"what is let out of memory can be loaded again", "x", "release_collection", "Release a collection.", write},
		{"what is loaded into a cluster changes it", "x", "load_image", "Load an image into the nodes of a cluster.", write},
		{"a package that is called a chart is none", "helm", "create_chart", "Create a new chart.", write},
		{"what gives the use of an agent runs anything", "x", "helper", "Provides access to a sub-agent.", harm},
		{"a verb after a conjunction that has an object counts, however far", "cad", "pins_of_part", "Read the pins from the library, and set their kinds.", write},
		{"a monitor that is run does something", "x", "run_monitor", "Run a monitor.", write},
		{"a Chinese description is read", "x", "mytool", "查询两个城市之间的车票", read},
	} {
		raw, _ := json.Marshal(map[string]string{"name": tt.name, "description": tt.description})
		got := Classify(defined(t, tt.server, string(raw)), Untrusted, Override{})
		if got.Permission != tt.want {
			t.Errorf("%s: %s %q is %v, want %v (%s)", tt.claim, tt.name, tt.description, got.Permission, tt.want, got.Why)
		}
	}
}

func TestClassOfASchema(t *testing.T) {
	for _, tt := range []struct{ claim, definition, want string }{
		{"a query that only reads", `{"name":"query","description":"Run a read-only SQL query","inputSchema":{"properties":{"sql":{}}}}`, "read"},
		{"a statement of any kind", `{"name":"query","description":"Runs a SQL query","inputSchema":{"properties":{"sql":{}}}}`, "destructive"},
		{"a SELECT", `{"name":"execute_query","description":"Execute a SELECT query. INSERT, UPDATE and DELETE are not allowed.","inputSchema":{"properties":{"query":{}}}}`, "read"},
		{"a query of a graph, for all that is said", `{"name":"run_gremlin_query","description":"Executes the Gremlin.","inputSchema":{"properties":{"query":{}}}}`, "destructive"},
		{"a query of a database in no language that is named", `{"name":"execute_query","description":"Executes a query against the database.","inputSchema":{"properties":{"query":{}}}}`, "destructive"},
		{"a query in a language that only reads", `{"name":"execute_query","description":"Executes a PromQL query against the cluster.","inputSchema":{"properties":{"query":{}}}}`, "read"},
		{"statements that one of two modes takes", `{"name":"transact","description":"Execute SQL statements. In read-only mode no insert, update or delete. In read-write mode any.","inputSchema":{"properties":{"sql":{}}}}`, "destructive"},
		{"any operation of an API", `{"name":"call_api","description":"Calls the API.","inputSchema":{"properties":{"operation":{},"params":{}}}}`, "destructive"},
		{"a command of a store", `{"name":"store_write","description":"Execute a changing command.","inputSchema":{"properties":{"command":{}}}}`, "destructive"},
		{"code", `{"name":"run","description":"Returns the result of the code.","inputSchema":{"properties":{"code":{}}}}`, "destructive"},
		{"the worst of several operations", `{"name":"manage_files","description":"Manages records.","inputSchema":{"properties":{"action":{"enum":["list","create","delete"]}}}}`, "destructive"},
		{"any HTTP request", `{"name":"request","description":"Makes a request","inputSchema":{"properties":{"url":{},"method":{},"body":{}}}}`, "destructive"},
		{"a place to save to", `{"name":"export_report","description":"Exports the report","inputSchema":{"properties":{"output_path":{}}}}`, "source_file_write"},
		{"a directory of the server's to write to", `{"name":"budget_export","description":"Export the budget, written to the server's export directory."}`, "source_file_write"},
		{"what is fetched and saved", `{"name":"export_people","description":"Fetches all people and saves them to a CSV file."}`, "source_file_write"},
		{"a picture that is rendered to a file", `{"name":"render_map","description":"Render the map to an image file.","inputSchema":{"properties":{"path":{}}}}`, "source_file_write"},
		{"content and the name to put it under", `{"name":"text_to_speech","description":"Convert text to speech.","inputSchema":{"properties":{"text":{},"filename":{}}}}`, "source_file_write"},
		{"what is exported to a folder", `{"name":"export_frames","description":"Export frames.","inputSchema":{"properties":{"folder_path":{}}}}`, "source_file_write"},
		{"formatting in a file that is given", `{"name":"format_text","description":"Format a range of text.","inputSchema":{"properties":{"filename":{}}}}`, "source_file_write"},
		{"a model file that is changed", `{"name":"extend_base","description":"Extend the base of an STL file.","inputSchema":{"properties":{"stl_path":{}}}}`, "source_file_write"},
		{"an output of any kind", `{"name":"set_bitrate","description":"Sets the bitrate.","inputSchema":{"properties":{"output_video_path":{}}}}`, "source_file_write"},
		{"an output that lies elsewhere", `{"name":"transcribe_batch","description":"Transcribes audio.","inputSchema":{"properties":{"output_bucket":{}}}}`, "reversible_write"},
		{"a linter that mends", `{"name":"lint","description":"Checks the code.","inputSchema":{"properties":{"source":{},"fix":{}}}}`, "reversible_write"},
		{"a rehearsal, which only a change needs", `{"name":"harvest_notes","description":"Extract notes from a session.","inputSchema":{"properties":{"dry_run":{}}}}`, "reversible_write"},
		{"what is provided is handed over", `{"name":"provide_clarification","description":"Provide the answer.","inputSchema":{"properties":{"answer":{}}}}`, "reversible_write"},
		{"a query whose name collects", `{"name":"collect_profile","description":"Run a query to get its profile.","inputSchema":{"properties":{"query":{},"db":{}}}}`, "read"},
		{"a query of a language of advertisements", `{"name":"run_gaql","description":"Execute a GAQL query.","inputSchema":{"properties":{"query":{}}}}`, "read"},
		{"files that are changed, as said further on", `{"name":"to_metric","description":"Convert units. By default it updates files."}`, "source_file_write"},
		{"an export beside what it is made of", `{"name":"export_board","description":"Export the board.","inputSchema":{"properties":{"boardPath":{}}}}`, "source_file_write"},
		{"a filter called action is none", `{"name":"list_todos","description":"Lists to-dos","inputSchema":{"properties":{"action":{"enum":["assigned","deleted","merge"]}}}}`, "read"},
	} {
		if got := Classify(defined(t, "s", tt.definition), Untrusted, Override{}); got.Permission.String() != tt.want {
			t.Errorf("%s: %v, want %s (%s)", tt.claim, got.Permission, tt.want, got.Why)
		}
	}
}

func TestEgressOfANoun(t *testing.T) {
	for _, tt := range []struct {
		claim, name, description string
		want                     engagement.Egress
	}{
		{"a list of functions names them", "list_functions", "", engagement.Metadata},
		{"reading a URL gives the page", "read_url", "", engagement.RowLevel},
		{"scanning a configuration gives what is wrong", "scan_config", "", engagement.RowLevel},
		{"querying bases gives what is in them", "query_bases", "", engagement.RowLevel},
		{"a verb may stand last", "sites_get", "", engagement.Metadata},
		{"candles are a series", "get_candles", "", engagement.Aggregates},
		{"brokers are names", "list_brokers", "", engagement.Metadata},
		{"a sentence begins with a capital letter", "get_sprint", "Calculates how it went.", engagement.Aggregates},
	} {
		raw, _ := json.Marshal(map[string]string{"name": tt.name, "description": tt.description})
		if got := Classify(defined(t, "x", string(raw)), Untrusted, Override{}); got.Egress != tt.want {
			t.Errorf("%s: %s %q is %v, want %v (%s)", tt.claim, tt.name, tt.description, got.Egress, tt.want, got.Why)
		}
	}
}

func TestDomainsOfAServerThatSaysWhatItIsFor(t *testing.T) {
	for _, tt := range []struct{ claim, server, name, description, want string }{
		{"a vector store keeps memories", "qdrant", "get_collection_info", "Gets a collection.", "memory"},
		{"notes of a repository are no documents", "gitlab", "list_notes", "Lists notes.", "vcs"},
		{"a server that says nothing serves what its words say", "acme", "list_notes_of_commit", "Lists notes of a commit.", "documents, vcs"},
		{"what is strongly meant comes beside it", "gitlab", "list_pipeline_jobs", "Lists the jobs of a pipeline.", "orchestration, vcs"},
	} {
		raw, _ := json.Marshal(map[string]string{"name": tt.name, "description": tt.description})
		if got := Classify(defined(t, tt.server, string(raw)), Untrusted, Override{}); fmt.Sprint(got.Domains) != tt.want {
			t.Errorf("%s: %s/%s serves %v, want %s", tt.claim, tt.server, tt.name, got.Domains, tt.want)
		}
	}
}

func TestAnnotationsAreClaims(t *testing.T) {
	for _, tt := range []struct {
		claim, name, annotations string
		trust                    Trust
		want                     string
	}{
		{"a claim of destruction raises", "update_page", `{"destructiveHint":true}`, Untrusted, "destructive"},
		{"a claim of writing raises", "get_page", `{"readOnlyHint":false}`, Untrusted, "reversible_write"},
		{"a claim of reading lowers nothing", "frobnicate", `{"readOnlyHint":true}`, Untrusted, "destructive"},
		{"but for a trusted server", "frobnicate", `{"readOnlyHint":true}`, Trusted, "read"},
		{"and never against a verb that sends", "send_mail", `{"readOnlyHint":true}`, Trusted, "destructive"},
		{"or deletes", "delete_page", `{"readOnlyHint":true,"destructiveHint":false}`, Trusted, "destructive"},
		{"or executes", "execute_command", `{"readOnlyHint":true}`, Trusted, "destructive"},
		{"or writes", "write_file", `{"readOnlyHint":true}`, Trusted, "source_file_write"},
		{"a trusted server may say that the unknown destroys nothing", "frobnicate", `{"destructiveHint":false}`, Trusted, "reversible_write"},
	} {
		tool := defined(t, "s", fmt.Sprintf(`{"name":%q,"annotations":%s}`, tt.name, tt.annotations))
		if got := Classify(tool, tt.trust, Override{}); got.Permission.String() != tt.want {
			t.Errorf("%s: %v, want %s (%s)", tt.claim, got.Permission, tt.want, got.Why)
		}
	}
}

func TestTheOwnersWordComesFirst(t *testing.T) {
	tool := defined(t, "github", `{"name":"delete_issue","description":"Deletes an issue."}`)
	none := engagement.DomainSet(0)
	got := Classify(tool, Untrusted, Override{Permission: engagement.Read, Egress: engagement.Metadata, Domains: &none, From: "gate.jsonc:7"})
	if got.Permission != engagement.Read || got.Egress != engagement.Metadata || got.Domains != 0 || !strings.Contains(got.Why, "gate.jsonc:7") {
		t.Errorf("the owner's word is not taken: %+v", got)
	}
}

func TestEveryClassHasAReason(t *testing.T) {
	eachRow(t, "classes.jsonl", func(row classRow, line []byte) {
		tool, err := NewTool(Alias(row.Server), line)
		if err != nil {
			t.Fatal(err)
		}
		first := Classify(tool, Untrusted, Override{})
		if !strings.Contains(first.Why, " by ") || strings.ContainsRune(first.Why, '\n') || first.Permission == 0 || first.Egress == 0 {
			t.Errorf("%v: %+v", tool.ID, first)
		}
		if again := Classify(tool, Untrusted, Override{}); again != first {
			t.Errorf("%v is classed in two ways: %+v and %+v", tool.ID, first, again)
		}
	})
}

func FuzzClassify(f *testing.F) {
	f.Add("get_issue", "Gets an issue.", `{"properties":{"a":{"enum":["x"]}}}`)
	f.Add("删除", "[a] (b) | : ", `{"properties":[]}`)
	f.Add("_", ". . .", `{}`)
	f.Fuzz(func(t *testing.T, name, description, schema string) {
		if !json.Valid([]byte(schema)) {
			return
		}
		n, _ := json.Marshal(name)
		d, _ := json.Marshal(description)
		tool, err := NewTool("s", json.RawMessage(fmt.Sprintf(`{"name":%s,"description":%s,"inputSchema":%s}`, n, d, schema)))
		if err != nil {
			return
		}
		if c := Classify(tool, Untrusted, Override{}); c.Permission == 0 || c.Egress == 0 || c.Why == "" {
			t.Errorf("no class: %+v", c)
		}
		Scan(tool, nil)
	})
}
