(* A table of lists, half of it dropped, and what is left moved together. *)
let () =
  let table = Hashtbl.create 1024 in
  for i = 0 to 599_999 do
    Hashtbl.replace table (string_of_int i) (List.init 8 (fun n -> (i * 31) + n))
  done;
  for i = 0 to 299_999 do
    Hashtbl.remove table (string_of_int (i * 2))
  done;
  Gc.compact ();
  let sum = ref 0 in
  for round = 1 to 3 do
    for i = 0 to 599_999 do
      match Hashtbl.find_opt table (string_of_int (i * 7919 mod 600_000)) with
      | Some list -> sum := (!sum + (round * List.fold_left ( + ) 0 list)) land 0xffffff
      | None -> ()
    done
  done;
  Printf.printf "%d\n" !sum
